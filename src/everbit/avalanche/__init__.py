"""everbit in Avalanche and Avalanche in everbit; needs the extra `avalanche`, which nothing else imports."""
