"""Guards: reasons why a case cannot be decided, or is decided otherwise. Every module here is imported."""
