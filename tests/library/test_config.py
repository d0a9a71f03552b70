"""agentprof.yaml: where it is found, exact numbers, and errors a user can act on."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from agentprof.config import Config, ConfigError, ModelPrice, SelfHosted, load_config, parse_config
from agentprof.energy.given import EnergyRate, GpuHours, Range

DOCS = Path(__file__).parents[2] / "docs"


def test_every_key_is_read_exactly() -> None:
    """Numbers keep the digits they were written with, quoted or not; dates and names are read as such."""
    config = parse_config(
        """
prices:
  - provider: openai
    model: "gpt-4o*"
    input: 0.1
    output: "1.10"
    cache_read: 0.123456789012345678901234567890
    cache_write: 1e-3
    cache_write_1h: 2
    reasoning: 1_000
    server_tools: {web_search: .01}
    from: 2026-01-01
    until: "2026-02-01"
tools:
  yes: 0.005
  1.0: 1
self_hosted:
  - {server: "10.0.0.*", usd_per_hour: 2.50, slots: 8}
"""
    )
    assert config == Config(
        prices=(
            ModelPrice(
                provider="openai",
                model="gpt-4o*",
                input=Decimal("0.1"),
                output=Decimal("1.10"),
                cache_read=Decimal("0.123456789012345678901234567890"),
                cache_write=Decimal("0.001"),
                cache_write_1h=Decimal(2),
                reasoning=Decimal(1000),
                server_tools={"web_search": Decimal("0.01")},
                from_=date(2026, 1, 1),
                until=date(2026, 2, 1),
            ),
        ),
        tools={"yes": Decimal("0.005"), "1.0": Decimal(1)},
        self_hosted=(SelfHosted(server="10.0.0.*", usd_per_hour=Decimal("2.50"), slots=8),),
    )
    assert str(config.prices[0].output) == "1.10"


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "prices:\ntools:\nself_hosted:\n", "prices: []"])
def test_an_empty_file_or_section_is_the_default(text: str) -> None:
    """Commenting everything out under a key is no error."""
    assert parse_config(text) == Config()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pricse: []", "f.yaml: pricse: no such key; the closest known one is `prices`"),
        (
            "prices: [{model: a, imput: 1, output: 1}]",
            "f.yaml: prices[0].imput: no such key; the closest known one is `input`",
        ),
        (
            "prices: [{model: a, input: cheap, output: 1}]",
            "f.yaml: prices[0].input: expected an amount in USD such as 0.15, got `cheap`",
        ),
        (
            "prices: [{model: a, input: -1, output: 1}]",
            "f.yaml: prices[0].input: expected an amount in USD such as 0.15, got `-1`",
        ),
        (
            "prices: [{model: a, input: .nan, output: 1}]",
            "f.yaml: prices[0].input: expected an amount in USD such as 0.15, got `.nan`",
        ),
        (
            "prices: [{model: a, input: NaN, output: 1}]",
            "f.yaml: prices[0].input: expected an amount in USD such as 0.15, got `NaN`",
        ),
        (
            "prices: [{model: a, input: 1e400000000, output: 1}]",
            "f.yaml: prices[0].input: expected an amount in USD such as 0.15, got `1e400000000`",
        ),
        (
            "prices: [{model: a, input: 1}]",
            "f.yaml: prices[0]: `input` needs `output` beside it (0 where nothing is charged)",
        ),
        (
            "prices: [{model: a, cache_read: 1, server_tools: {x: 1}}]",
            "f.yaml: prices[0]: `cache_read` needs `input` and `output` beside it",
        ),
        ("prices: [{model: a}]", "f.yaml: prices[0]: an entry needs `input` and `output`, or `server_tools`"),
        ("prices: [{input: 1, output: 1}]", "f.yaml: prices[0]: an entry needs `provider` or `model`"),
        (
            "prices: [{model: a, input: 1, output: 1, from: May}]",
            "f.yaml: prices[0].from: expected a date such as 2026-05-01, got `May`",
        ),
        (
            "prices: [{model: a, input: 1, output: 1, from: 2026-05-01, until: 2026-05-01}]",
            "f.yaml: prices[0]: `until` must be after `from`, got 2026-05-01 and 2026-05-01",
        ),
        ("prices: gpt-4o", "f.yaml: prices: expected a list of entries, got `gpt-4o`"),
        ("prices: [gpt-4o]", "f.yaml: prices[0]: expected keys and values, got `gpt-4o`"),
        ("- prices", "f.yaml: expected keys and values, got a list"),
        ("tools: [a]", "f.yaml: tools: expected names with a price each, got a list"),
        (
            "tools: {web: {a: 1}}",
            "f.yaml: tools.web: expected an amount in USD such as 0.15, got keys and values",
        ),
        ("tools: {web: }", "f.yaml: tools.web: expected an amount in USD such as 0.15, got nothing"),
        ("tools:\n  web: 1\n  web: 2\n", "f.yaml: line 3: the key `web` is written twice"),
        ("self_hosted: [{server: a}]", "f.yaml: self_hosted[0]: `usd_per_hour` is missing"),
        ("self_hosted: [{usd_per_hour: 1}]", "f.yaml: self_hosted[0]: an entry needs `server` or `model`"),
        (
            "self_hosted: [{server: a, usd_per_hour: 1, slots: 0}]",
            "f.yaml: self_hosted[0].slots: expected a whole number of at least 1, got `0`",
        ),
        ("prices: [", "f.yaml: line 1: expected the node content, but found '<stream end>'"),
        # digits that would fill the memory where an amount is written out
        *(
            (
                f"tools: {{web: {number}}}",
                f"f.yaml: tools.web: expected an amount in USD such as 0.15, got `{number}`",
            )
            for number in ("1e-999999999", "0e-999999999", "0e999999999", ".nan", "-1")
        ),
        pytest.param(
            f"tools: {{web: 0.{'3' * 100_000}}}",
            f"f.yaml: tools.web: expected an amount in USD such as 0.15, got `0.{'3' * 78}…`",
            id="many digits",
        ),
        (
            "energy: [{model: a, boundary: gpu, busy_watts: 1e-999999999}]",
            "f.yaml: energy[0].busy_watts: expected a number such as 0.3 or two of them, [low, high], got "
            "`1e-999999999`",
        ),
        (
            "tools: {{{ name }}: 1}",
            "f.yaml: line 1: expected a name before the colon, got a list or keys and values",
        ),
        ("[a]: 1", "f.yaml: line 1: expected a name before the colon, got a list or keys and values"),
        pytest.param("tools: " + "[" * 1000, "f.yaml: it is nested too deeply", id="deep"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, message: str) -> None:
    """An error says file, key, what was expected and what came."""
    with pytest.raises(ConfigError) as raised:
        parse_config(text, "f.yaml")
    assert str(raised.value) == message


def test_a_tag_cannot_make_objects() -> None:
    """The file is data: a tag that asks for a Python object is refused."""
    with pytest.raises(ConfigError, match="could not determine a constructor"):
        parse_config("prices: !!python/object/apply:os.getcwd []")


def test_the_file_is_found_by_path_then_variable_then_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a given path, AGENTPROF_CONFIG and ./agentprof.yaml the first that is there is read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AGENTPROF_CONFIG", raising=False)
    assert load_config() == Config()
    for name, price in (("agentprof.yaml", 1), ("variable.yaml", 2), ("path.yaml", 3)):
        (tmp_path / name).write_text(f"tools: {{web: {price}}}")
    assert load_config().tools == {"web": Decimal(1)}
    monkeypatch.setenv("AGENTPROF_CONFIG", "variable.yaml")
    assert load_config().tools == {"web": Decimal(2)}
    assert load_config("path.yaml").tools == {"web": Decimal(3)}
    assert load_config(tmp_path / "path.yaml").tools == {"web": Decimal(3)}
    monkeypatch.setenv("AGENTPROF_CONFIG", "")
    assert load_config().tools == {"web": Decimal(1)}


def test_a_named_file_that_cannot_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing, unreadable or binary file is never taken for an empty one."""
    missing = tmp_path / "missing.yaml"
    with pytest.raises(ConfigError, match=r"missing\.yaml: there is no such file$"):
        load_config(missing)
    monkeypatch.setenv("AGENTPROF_CONFIG", str(missing))
    with pytest.raises(ConfigError, match=r"there is no such file \(named by AGENTPROF_CONFIG\)$"):
        load_config()
    with pytest.raises(ConfigError, match="cannot be read: "):
        load_config(tmp_path)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe")
    for path in (binary, "a\0b", "~nobody-of-this-name/agentprof.yaml"):
        with pytest.raises(ConfigError, match="cannot be read: "):
            load_config(path)


def test_equal_contents_have_equal_versions() -> None:
    """The version recorded with a cost changes with the prices and with nothing else."""
    one = parse_config("tools: {web: 1}")
    assert one.version == parse_config("# the same\ntools:\n  web: '1'\n").version
    assert one.version != parse_config("tools: {web: 2}").version
    assert one.version.startswith("agentprof.yaml ")


def test_the_example_in_the_docs_loads() -> None:
    """The documented file is read whole, and uses every key there is."""
    _, _, rest = (DOCS / "cost.md").read_text(encoding="utf-8").partition("```yaml\n")
    text, _, _ = rest.partition("```")
    config = parse_config(text, "docs/cost.md")
    assert len(config.prices) == 4
    assert config.tools["search_*"] == Decimal("0.005")
    assert config.self_hosted[0].slots == 4
    for struct in (ModelPrice, SelfHosted):
        for field in struct.__struct_encode_fields__:
            assert f"{field}:" in text


def test_the_rates_of_energy_in_the_docs_load() -> None:
    """Every key of an entry is shown, a number and an interval among the values."""
    _, _, rest = (DOCS / "energy.md").read_text(encoding="utf-8").partition("```yaml\n")
    text, _, _ = rest.partition("```")
    config = parse_config(text, "docs/energy.md")
    assert config.energy[0].j_per_output_token == Range(Decimal("0.07"), Decimal("0.44"))
    assert config.energy[0].j_per_cached_token == Range(Decimal("0.001"), Decimal("0.001"))
    assert config.energy[2].busy_watts == Range(Decimal(120), Decimal(900))
    for field in EnergyRate.__struct_encode_fields__:
        assert f"{field}:" in text


def test_the_hours_of_gpus_in_the_docs_load() -> None:
    """Every key of an entry is shown."""
    _, _, rest = (DOCS / "cost.md").read_text(encoding="utf-8").partition("## GPUs by the hour")
    text = rest.partition("```yaml\n")[2].partition("```")[0]
    (entry,) = parse_config(text, "docs/cost.md").gpu_hours
    assert (entry.gpu_hour_usd, entry.gpus) == (Decimal("2.50"), 4)
    for field in GpuHours.__struct_encode_fields__:
        assert f"{field}:" in text


RATES = "energy: [{model: m, boundary: gpu, j_per_output_token: %s}]"


@pytest.mark.parametrize("value", ["2", "[1, 2]", '["1", 2.0]'])
def test_a_rate_is_a_number_or_two(value: str) -> None:
    """The smaller first; digits are kept."""
    (entry,) = parse_config(RATES % value).energy
    assert entry.j_per_output_token is not None
    assert entry.j_per_output_token.high == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            RATES % "[2, 1]",
            r"energy\[0\].j_per_output_token: expected the smaller number first, got \[2, 1\]",
        ),
        (
            RATES % "[1, 2, 3]",
            r"j_per_output_token: expected a number such as 0.3 or two of them, \[low, high\]",
        ),
        (RATES % "-1", r"expected a number such as 0.3 .* got `-1`"),
        (RATES % "[1, .inf]", "expected a number such as 0.3"),
        (RATES % "{low: 1}", "got keys and values"),
        (RATES.replace("gpu", "rack") % 1, r"boundary: expected one of gpu, server, facility, got `rack`"),
        ("energy: [{model: m, j_per_output_token: 1}]", r"energy\[0\]: `boundary` is missing"),
        ("energy: [{boundary: gpu, j_per_output_token: 1}]", "needs `provider`, `model` or `server`"),
        (
            "energy: [{model: m, boundary: gpu}]",
            "needs `j_per_output_token`, `j_per_input_token` or `busy_watts`",
        ),
        (
            "energy: [{model: m, boundary: gpu, busy_watts: 1, j_per_output_token: 1}]",
            "rates per token or `busy_watts`, not both",
        ),
        (
            "energy: [{model: m, boundary: gpu, j_per_output_token: 1, j_per_cached_token: 1}]",
            "`j_per_cached_token` needs `j_per_input_token` beside it",
        ),
        ("energy: [{model: m, boundary: gpu, joules: 1}]", "no such key"),
        ("gpu_hours: [{gpu_hour_usd: 2}]", "needs `server` or `model`"),
        ("gpu_hours: [{model: m, gpu_hour_usd: 2, gpus: 0}]", "a whole number of at least 1"),
    ],
)
def test_what_is_wrong_with_a_rate_is_said(text: str, message: str) -> None:
    """Where it stands, what was expected, what came."""
    with pytest.raises(ConfigError, match=message):
        parse_config(text)


def test_energy_does_not_change_the_version_of_the_prices() -> None:
    """A cost says by which prices it was made, and by nothing else."""
    both = parse_config("tools: {web: 1}\n" + RATES % 1)
    assert both.version == parse_config("tools: {web: 1}").version
    assert both.energy_version == parse_config(RATES % 1).energy_version
    assert both.energy_version != parse_config(RATES % 2).energy_version
