"""The preview report for reviewers."""
