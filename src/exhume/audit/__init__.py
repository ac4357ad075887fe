"""The evaluator: runs attacks against a server whose hidden state it knows, judges them, writes the report."""
