"""Operations as columns, straight from a file."""
