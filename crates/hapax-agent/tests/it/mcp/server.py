"""An MCP server over streamable HTTP that writes down what it does."""

import os
import sys

from mcp.server import MCPServer

port, answers, effects = int(sys.argv[1]), sys.argv[2], sys.argv[3]
server = MCPServer("written-down")


def record(line):
    with open(effects, "a") as file:
        file.write(line + "\n")


@server.tool()
def append(line: str) -> str:
    record(line)
    return "appended"


@server.tool()
def refuse() -> str:
    raise ValueError("no such order")


@server.tool()
def die() -> str:
    record("died")
    os._exit(3)


server.run("streamable-http", port=port, json_response=answers == "json")
