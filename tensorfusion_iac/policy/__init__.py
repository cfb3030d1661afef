"""The policy pack: what a platform team allows its application teams, judged at `pulumi preview --policy-pack`."""
