"""The policy pack."""
