git status && ls -la || echo no; cat a | sort
wc -l
