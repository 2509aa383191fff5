"""Documents of records: tables and pages for people, JSON and CSV for programs."""
