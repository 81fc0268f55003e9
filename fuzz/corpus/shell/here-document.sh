cat <<EOF
rm -rf /
EOF