"""What the course in `notebooks/` needs beside the library."""
