"""Lines of other libraries and of functad that say the same: the page on migration is made of them, and they are executed."""
