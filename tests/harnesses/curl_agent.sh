#!/bin/sh
# Asks once with curl, by the address that has the key in it, and leaves a reward in a file.
set -e
curl -sSf --noproxy '*' -H 'content-type: application/json' -o reply.json \
  -d "{\"messages\": [{\"role\": \"user\", \"content\": \"Begin.\"}]}" "$AGENTGYM_URL_WITH_KEY/v1/chat/completions"
echo "0.$(($(wc -c < reply.json) % 10))" > reward.txt
