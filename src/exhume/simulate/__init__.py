"""What every experiment plays: one federation, one trial, one adaptive prober, and how outcomes are scored."""
