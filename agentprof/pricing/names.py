"""Which entries of a price table a call may mean: spans name providers and models in many spellings."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

# Identifiers of the table by names seen on spans: those of the GenAI conventions, of LiteLLM's route
# prefixes, and of common instrumentations. A name that is missing here is tried as it is.
PROVIDERS: dict[str, str] = {
    "anthropic": "anthropic",
    "aws": "aws",
    "aws.bedrock": "aws",
    "aws_bedrock": "aws",
    "amazon-bedrock": "aws",
    "amazon_bedrock": "aws",
    "bedrock": "aws",
    "bedrock_converse": "aws",
    "azure": "azure",
    "azure.ai.inference": "azure",
    "azure.ai.openai": "azure",
    "az.ai.inference": "azure",
    "az.ai.openai": "azure",
    "azure_ai": "azure",
    "azure_openai": "azure",
    "azureopenai": "azure",
    "cerebras": "cerebras",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "fireworks": "fireworks",
    "fireworks_ai": "fireworks",
    "gcp.gemini": "google",
    "gcp.gen_ai": "google",
    "gcp.vertex.agent": "google",
    "gcp.vertex_ai": "google",
    "gemini": "google",
    "google": "google",
    "google-gla": "google",
    "google-vertex": "google",
    "google_genai": "google",
    "google_vertexai": "google",
    "vertex_ai": "google",
    "vertexai": "google",
    "groq": "groq",
    "mistral": "mistral",
    "mistral_ai": "mistral",
    "mistralai": "mistral",
    "moonshot": "moonshotai",
    "moonshot_ai": "moonshotai",
    "moonshotai": "moonshotai",
    "novita": "novita",
    "openai": "openai",
    "openrouter": "openrouter",
    "perplexity": "perplexity",
    "together": "together",
    "together_ai": "together",
    "x-ai": "x-ai",
    "x_ai": "x-ai",
    "xai": "x-ai",
} | {
    # As Vercel's AI SDK names them, with the endpoint.
    f"{name}.{endpoint}": provider
    for name, provider, endpoints in (
        ("anthropic", "anthropic", ("messages",)),
        ("azure", "azure", ("chat", "responses")),
        ("azure-openai", "azure", ("chat", "responses")),
        ("cohere", "cohere", ("chat",)),
        ("deepseek", "deepseek", ("chat",)),
        ("google", "google", ("generative-ai", "vertex.chat")),
        ("groq", "groq", ("chat",)),
        ("mistral", "mistral", ("chat", "embedding")),
        ("openai", "openai", ("chat", "responses", "completion", "embedding")),
        ("xai", "x-ai", ("chat", "responses")),
    )
    for endpoint in endpoints
}

# Engines and machines of one's own, and places whose price depends on the machine or route behind them.
# The name of a model says nothing about the price there.
UNLISTED = frozenset(
    (
        "hf",
        "hosted_vllm",
        "huggingface",
        "huggingface_hub",
        "ibm.watsonx.ai",
        "llama.cpp",
        "llama_cpp",
        "llamacpp",
        "llamafile",
        "lm_studio",
        "lmstudio",
        "localai",
        "mlx",
        "ollama",
        "ollama_chat",
        "replicate",
        "sagemaker",
        "sglang",
        "tensorrt_llm",
        "text-generation-inference",
        "text_generation_inference",
        "tgi",
        "transformers",
        "triton",
        "vllm",
        "watsonx",
        "xinference",
    )
)

# Prefixes that only ever name a route; others may also be the owner in a model's own name (`openai/...`).
_ROUTES = frozenset(
    (
        "azure",
        "azure_ai",
        "bedrock",
        "bedrock_converse",
        "fireworks_ai",
        "gemini",
        "openrouter",
        "together_ai",
        "vertex_ai",
    )
)

# Models that only their vendor and its licensed clouds run. Every other name may be an open model, or one of
# that name, on a machine of one's own, where no list price is paid.
_HOSTED_ONLY = re.compile(
    r"(?:openai/|anthropic/|google/|x-ai/)?"
    r"(?:gpt-(?!oss)|chatgpt-|o[134](?:-|$)|text-embedding-(?:3-|ada-)|claude-|gemini-|grok-\d)"
)

# Models of OpenAI that the table does not find by their name alone.
_OF_OPENAI = re.compile(r"text-embedding-(?:3-|ada-)")

_DATE = re.compile(r"[-@:]20\d{2}-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])$")


def is_hosted_only(model: str) -> bool:
    """Whether a model of this name can only be a hosted one, wherever the request went (a gateway, say)."""
    return _HOSTED_ONLY.match(model.strip().lower()) is not None


def provider_spellings(provider: str | None) -> tuple[str, ...]:
    """The provider in lower case as the span names it, and as the table does where that differs."""
    name = (provider or "").strip().lower()
    listed = PROVIDERS.get(name)
    return (name,) if listed is None or listed == name else (name, listed)


def model_spellings(model: str) -> tuple[str, ...]:
    """The model in lower case as the span names it, without a resource path, and without a route prefix."""
    full = model.strip().lower()
    spellings = [full]
    _, path, name = full.rpartition("models/")
    if path:
        spellings.append(name)
    head, _, rest = full.partition("/")
    if rest and (head in PROVIDERS or head in UNLISTED):
        spellings.append(rest)
    return tuple(dict.fromkeys(spellings))


def server_spellings(server: str | None) -> tuple[str, ...]:
    """The address of an endpoint in lower case, with its port and without."""
    address = (server or "").lower()
    host, _, port = address.rpartition(":")
    return (address, host) if port.isdigit() else (address,)


def matches(pattern: str, spellings: tuple[str, ...]) -> bool:
    """Whether a pattern with `*` and `?` is for something that is spelt in one of these ways."""
    return any(fnmatchcase(spelling, pattern.lower()) for spelling in spellings)


def look_ups(provider: str | None, model: str) -> tuple[tuple[str | None, str], ...]:
    """Pairs of provider and model to look for, best first; provider None asks for the model alone.

    Empty where no table of hosted models may be used. A provider that is known is never left: its price
    for the model is wanted and no other, unless a prefix (`bedrock/...`) names another one.
    """
    name = (provider or "").strip().lower()
    full = model.strip().lower()
    head, _, rest = full.partition("/")
    if name in UNLISTED or (rest and head in UNLISTED):
        return ()
    found: list[tuple[str | None, str]] = []
    if rest and head in _ROUTES:
        found.append((PROVIDERS[head], rest))
    if name:
        found += [(PROVIDERS.get(name, name), spelling) for spelling in model_spellings(model)]
    if rest and head in PROVIDERS:
        found.append((PROVIDERS[head], rest))
    if name not in PROVIDERS:
        spellings = model_spellings(model)
        found += [(None, spelling) for spelling in spellings]
        found += [("openai", spelling) for spelling in spellings if _OF_OPENAI.match(spelling)]
    # A dated name that the table does not list means the model without its date.
    found += [(who, _DATE.sub("", what)) for who, what in found if _DATE.search(what)]
    return tuple(dict.fromkeys(found))
