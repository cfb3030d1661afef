"""The node agent: discovery, enforcement and health of the cards of one node (SPEC §6)."""
