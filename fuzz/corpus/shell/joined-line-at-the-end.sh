rm \
