"""Lists of utterances in the formats of others, and as the records that they become."""
