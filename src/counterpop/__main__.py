"""`python -m counterpop`"""

from counterpop.cli import main

main()
