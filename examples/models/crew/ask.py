#!/usr/bin/env python3
"""A language model as a command: the task's input comes on stdin as JSON, and its output goes to stdout."""
import json, os, sys, urllib.request

base = os.environ.get("MODEL_URL", "http://127.0.0.1:11434/v1")
body = {"model": os.environ.get("MODEL", "llama3.2"), "messages": [{"role": "user", "content": json.load(sys.stdin)}]}
request = urllib.request.Request(base + "/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
print("asking", base, file=sys.stderr)  # the last line on stderr is what every view shows of the task
with urllib.request.urlopen(request) as answer:
    print(json.dumps(json.load(answer)["choices"][0]["message"]["content"]))
