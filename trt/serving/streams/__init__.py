"""Sound that comes while it is spoken: captions, sessions of OpenAI's, Wyoming's protocol."""
