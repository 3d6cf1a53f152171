"""One small module for every format that documents come in."""
