"""What whoever runs a cluster asks of it: what is wrong (`doctor`), how it stands (`status`), who uses what (`top`).

Reading a cluster is thin; what is read is judged and put into rows by pure functions.
"""
