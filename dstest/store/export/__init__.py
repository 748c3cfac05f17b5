"""What runs and sessions came to, in the formats of CI servers and of monitoring."""
