"""The admission webhook: every labelled pod is resolved, validated and mutated (SPEC §1-§3, §5)."""
