"""Attack x defence: what each defence stops, what it costs, and which one fits an operator's needs."""
