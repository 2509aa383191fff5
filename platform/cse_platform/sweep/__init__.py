"""What a sweep file says: read, checked against its method, hashed; where its results go."""
