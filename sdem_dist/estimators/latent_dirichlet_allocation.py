"""Unsupervised LDA by mirror descent (BP-LDA)."""
