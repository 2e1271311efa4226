"""What stands before the models: who may ask for how much, and what a body holds."""
