"""Written English in words: a text is divided into tokens once, each has a class, and each class has one reading."""
