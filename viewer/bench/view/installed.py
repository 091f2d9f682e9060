"""Where a browser is installed, unless an option says otherwise."""

CHROMIUM = "/usr/bin/chromium"
