git status \
  --short \
  src