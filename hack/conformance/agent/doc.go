// Package agent tests agents with a language model against LiteLLM's proxy, a third-party
// implementation of the OpenAI protocol. litellm.sh starts the proxy and runs the tests.
package agent
