"""What the tests of the containers target need where no image can be pulled."""
