"""Python source that declares the objects of a manifest (`import`)."""
