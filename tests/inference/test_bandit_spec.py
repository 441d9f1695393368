"""Generation: the same text as the model alone, the same law when sampling, statistics, limits, bad input."""

import math
import pickle
import warnings

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

from paperworks.inference import Arm, BanditSpec, NGramDraft  # noqa: E402

PROMPT = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 7, 8]])


def llama(seed: int = 0, **given: object) -> LlamaForCausalLM:
    settings = {
        "vocab_size": 40,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": 0,
        "initializer_range": 0.1,
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(LlamaConfig(**{**settings, **given})).eval()


TARGET = llama(0)
CLOSE = llama(0)  # the target with a little noise: right now and then
with torch.no_grad(), torch.random.fork_rng():
    torch.manual_seed(1)
    for _parameter in CLOSE.parameters():
        _parameter += 0.04 * torch.randn_like(_parameter)
SMALL = llama(7, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
TABLE = NGramDraft(4).fit(TARGET.generate(PROMPT, max_new_tokens=60, do_sample=False))

ARMS = {
    "lookup": [Arm(prompt_lookup=3)],
    "plain": [{"length": 0}],
    "close": [Arm(draft=CLOSE, length=5)],
    "wrong": [SMALL],
    "table": [Arm(table=TABLE, length=7)],
    "lengths": [Arm(draft=CLOSE, length=n) for n in (0, 1, 2, 4)],
    "all": [
        Arm(prompt_lookup=2, length=6),
        Arm(draft=CLOSE, length=1),
        Arm(draft=TARGET, length=3),
        Arm(table=TABLE),
        Arm(length=0),
        SMALL,
    ],
}


def plain(model: object, prompt: object = PROMPT, n: int = 40, **given: object) -> object:
    return model.generate(prompt, max_new_tokens=n, do_sample=False, **given)


# --- the same text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arms", sorted(ARMS))
def test_greedy_text_is_that_of_the_model(arms: str) -> None:
    bandit = BanditSpec(TARGET, ARMS[arms], random_state=0)
    for prompt in (PROMPT, torch.tensor([[3]]), torch.tensor([[4, 4, 4, 4]])):
        assert torch.equal(bandit.generate(prompt, max_new_tokens=40, do_sample=False), plain(TARGET, prompt))


@pytest.mark.parametrize("algorithm", ["ucb", "exp3", "thompson", "greedy", "uniform", "fixed:2"])
def test_greedy_text_with_every_bandit(algorithm: str) -> None:
    """Random switching between arms keeps all caches in step."""
    for seed in range(4):
        bandit = BanditSpec(TARGET, ARMS["all"], algorithm=algorithm, random_state=seed)
        prompt = torch.tensor([np.random.default_rng(seed).integers(1, 40, size=1 + 5 * seed).tolist()])
        assert torch.equal(bandit.generate(prompt, max_new_tokens=40, do_sample=False), plain(TARGET, prompt))
        assert algorithm == "fixed:2" or sum(n > 0 for n in bandit.stats_["pulls"]) >= 3


@pytest.mark.parametrize("reward", ["tokens", "throughput", "cost"])
@pytest.mark.parametrize("memory", ["prompt", "session", "discount"])
def test_greedy_text_with_every_reward_and_memory(reward: str, memory: str) -> None:
    bandit = BanditSpec(TARGET, ARMS["all"], reward=reward, memory=memory)
    for _ in range(2):
        assert torch.equal(bandit.generate(PROMPT, max_new_tokens=30), plain(TARGET, n=30))


def test_other_architectures() -> None:
    small = {"vocab_size": 40, "pad_token_id": 0, "eos_token_id": None, "bos_token_id": None}
    sliding = transformers.MistralConfig(
        **small, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, sliding_window=6, initializer_range=0.1,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        models = [
            transformers.GPT2LMHeadModel(
                transformers.GPT2Config(**small, n_embd=32, n_layer=2, n_head=4, initializer_range=0.2)
            ).eval(),
            transformers.MistralForCausalLM(sliding).eval(),
        ]
    for model in models:
        text = model.generate(PROMPT, max_new_tokens=40, do_sample=False)
        arms = [
            Arm(prompt_lookup=3, length=5),
            Arm(table=NGramDraft(3).fit(text), length=3),
            Arm(draft=model, length=2),
            Arm(draft=SMALL),
        ]
        bandit = BanditSpec(model, arms, algorithm="uniform", random_state=0)
        assert torch.equal(bandit.generate(PROMPT, max_new_tokens=40, do_sample=False), text)
        assert min(bandit.stats_["pulls"]) > 0


def test_custom_generate_is_the_same() -> None:
    bandit = BanditSpec(TARGET, ARMS["all"], random_state=0)
    direct = bandit.generate(PROMPT, max_new_tokens=30, do_sample=True, temperature=0.7)
    through = TARGET.generate(PROMPT, custom_generate=bandit, max_new_tokens=30, do_sample=True, temperature=0.7)
    assert torch.equal(direct, through)
    seeded = [
        TARGET.generate(
            PROMPT, custom_generate=bandit, max_new_tokens=30, do_sample=True,
            generator=torch.Generator().manual_seed(s),
        )
        for s in (0, 0, 1)
    ]  # fmt: skip
    assert torch.equal(seeded[0], seeded[1])
    assert not torch.equal(seeded[0], seeded[2])


def test_padding_on_the_left_changes_nothing() -> None:
    bandit = BanditSpec(TARGET, ARMS["all"], algorithm="uniform", random_state=0)
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.long), PROMPT], 1)
    mask = torch.tensor([[0] * 3 + [1] * PROMPT.shape[1]])
    got = bandit.generate(padded, attention_mask=mask, max_new_tokens=30, do_sample=False)
    assert torch.equal(got, plain(TARGET, padded, 30, attention_mask=mask))
    assert torch.equal(got[:, 3:], plain(TARGET, n=30))
    own = BanditSpec(TARGET, [Arm(draft=TARGET, length=4)])
    assert torch.equal(own.generate(padded, attention_mask=mask, max_new_tokens=51)[:, 3:], plain(TARGET, n=51))
    assert own.stats_["rounds"] == 10  # as a draft the model sees the mask too
    assert torch.equal(bandit.generate(input_ids=PROMPT, max_new_tokens=30), got[:, 3:])


def test_a_given_cache_is_continued() -> None:
    with torch.no_grad():
        cache = TARGET(PROMPT[:, :6], use_cache=True).cache
    bandit = BanditSpec(TARGET, ARMS["lookup"])
    got = bandit.generate(PROMPT, cache=cache, max_new_tokens=20, do_sample=False, return_dict_in_generate=True)
    assert torch.equal(got.sequences, plain(TARGET, n=20))
    assert got.cache is cache
    assert cache.get_seq_length() == got.sequences.shape[1] - 1
    with pytest.raises(ValueError, match="cache must hold fewer tokens"):
        bandit.generate(PROMPT, cache=cache, max_new_tokens=20)


@pytest.mark.parametrize(
    ("seed", "given"),
    [
        (0, {"repetition_penalty": 1.5}),
        (0, {"no_repeat_ngram_size": 2}),
        (0, {"bad_words_ids": [[8], [5, 6]]}),
        (3, {"min_new_tokens": 20}),
        (0, {"forced_eos_token_id": 9}),
        (0, {"prefix_allowed_tokens_fn": lambda batch, ids: [(int(ids[-1]) + k) % 12 for k in (1, 2, 5)]}),
    ],
)
def test_each_position_is_judged_with_its_own_prefix(seed: int, given: dict[str, object]) -> None:
    ids = torch.tensor([[5, 6, 7, 8, 5, 6, 7]])
    model = llama(seed, vocab_size=12, bos_token_id=1, eos_token_id=2, initializer_range=0.2)
    alone = plain(model, ids, 30, **given)
    assert not torch.equal(alone, plain(model, ids, 30))
    arms = [{"prompt_lookup": 2, "length": 5}, {"length": 3, "draft": model}]
    for algorithm in ("ucb", "uniform"):
        bandit = BanditSpec(model, arms, algorithm=algorithm, random_state=0)
        assert torch.equal(bandit.generate(ids, max_new_tokens=30, do_sample=False, **given), alone)
        assert bandit.stats_["mean_accepted"][1] > 2.5  # the draft obeys the same settings


# --- where a text ends ---------------------------------------------------------------------------------------------


def test_no_end_token_configured() -> None:
    model = llama(5)
    arms = [{"prompt_lookup": 3, "length": 4}, {"length": 0}]
    got = BanditSpec(model, arms, random_state=0).generate(PROMPT, max_new_tokens=15)
    assert got.shape[1] == PROMPT.shape[1] + 15
    assert torch.equal(got, plain(model, n=15))


@pytest.mark.parametrize("n", [1, 2, 7])
def test_one_token_prompt_and_small_budget(n: int) -> None:
    model, prompt = llama(2), torch.tensor([[3]])
    bandit = BanditSpec(model, [{"prompt_lookup": 4, "length": 8}, {"draft": model, "length": 8}])
    got = bandit.generate(prompt, max_new_tokens=n, do_sample=False)
    assert got.shape[1] == 1 + n
    assert torch.equal(got, plain(model, prompt, n))
    assert bandit.stats_["tokens"] == n


def test_end_token_inside_a_draft_ends_the_text() -> None:
    text = plain(TARGET)[0, PROMPT.shape[1] :].tolist()
    for place in range(1, 12):
        end = text[place]
        expected = plain(TARGET, eos_token_id=[end, 39])
        for arms in (ARMS["table"], [Arm(draft=TARGET, length=6)]):
            bandit = BanditSpec(TARGET, arms)
            assert torch.equal(bandit.generate(PROMPT, max_new_tokens=40, eos_token_id=[end, 39]), expected)
            assert bandit.stats_["tokens"] == expected.shape[1] - PROMPT.shape[1]


def test_criteria_are_asked_after_each_token() -> None:
    class Multiple(transformers.StoppingCriteria):
        def __call__(self, input_ids: object, scores: object, **given: object) -> object:
            stop = input_ids.shape[1] > 12 and int(input_ids.sum()) % 3 == 0
            return torch.full((1,), stop, dtype=torch.bool)

    criteria = transformers.StoppingCriteriaList([Multiple()])
    expected = plain(TARGET, stopping_criteria=criteria)
    assert 12 < expected.shape[1] < PROMPT.shape[1] + 40
    bandit = BanditSpec(TARGET, [Arm(draft=TARGET, length=8)])
    got = bandit.generate(
        PROMPT, max_new_tokens=40, stopping_criteria=criteria, return_dict_in_generate=True, output_scores=True
    )
    assert torch.equal(got.sequences, expected)
    assert len(got.scores) == expected.shape[1] - PROMPT.shape[1]


def test_stop_strings() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    letters = {chr(97 + i) if i < 26 else chr(39 + i): i for i in range(40)}
    spelling = tokenizers.Tokenizer(tokenizers.models.BPE(letters, []))
    spelling.decoder = tokenizers.decoders.Fuse()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=spelling)
    text = plain(TARGET)[0].tolist()
    stop = tokenizer.decode(text[PROMPT.shape[1] + 11 :][:2])
    expected = plain(TARGET, stop_strings=[stop], tokenizer=tokenizer)
    assert PROMPT.shape[1] < expected.shape[1] < len(text)
    bandit = BanditSpec(TARGET, [Arm(draft=TARGET, length=8)])
    given = {"stop_strings": [stop], "tokenizer": tokenizer}
    assert torch.equal(bandit.generate(PROMPT, max_new_tokens=40, do_sample=False, **given), expected)


def test_scores_and_logits_are_those_of_the_model() -> None:
    given = {
        "max_new_tokens": 20, "do_sample": False, "repetition_penalty": 1.3,
        "return_dict_in_generate": True, "output_scores": True, "output_logits": True,
    }  # fmt: skip
    alone = TARGET.generate(PROMPT, **given)
    got = BanditSpec(TARGET, ARMS["all"], algorithm="uniform", random_state=0).generate(PROMPT, **given)
    assert torch.equal(got.sequences, alone.sequences)
    for name in ("scores", "logits"):
        assert len(got[name]) == 20
        for ours, theirs in zip(got[name], alone[name], strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_streamer_gets_prompt_and_tokens() -> None:
    class Collect(transformers.generation.streamers.BaseStreamer):
        def __init__(self) -> None:
            self.parts, self.ended = [], 0

        def put(self, value: object) -> None:
            self.parts.append(value.flatten().tolist())

        def end(self) -> None:
            self.ended += 1

    streamer = Collect()
    bandit = BanditSpec(TARGET, ARMS["close"])
    text = bandit.generate(PROMPT, max_new_tokens=30, streamer=streamer)
    assert [token for part in streamer.parts for token in part] == text[0].tolist()
    assert [len(part) for part in streamer.parts[2:]] == [n for _, n, _ in bandit.stats_["history"]]
    assert streamer.ended == 1


# --- sampling ------------------------------------------------------------------------------------------------------


def exact_law(model: object, prompt: object, temperature: float, n: int) -> object:
    """Probabilities of the next n tokens, shape (V,) * n."""
    v = model.config.vocab_size
    law, texts = torch.ones(1, dtype=torch.float64), prompt
    for _ in range(n):
        with torch.no_grad():
            step = torch.softmax(model(texts).logits[:, -1].double() / temperature, -1)
        law = (law[:, None] * step).flatten()
        texts = torch.cat([texts.repeat_interleave(v, 0), torch.arange(v).repeat(len(texts))[:, None]], 1)
    return law.reshape((v,) * n).numpy()


@pytest.mark.parametrize("runs", [500, pytest.param(4000, marks=pytest.mark.slow)])
def test_sampled_text_follows_the_exact_law(runs: int) -> None:
    sizes = {"vocab_size": 8, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    target, draft = (llama(seed, **sizes, initializer_range=0.4) for seed in (0, 9))
    ids = torch.tensor([[3, 4, 3]])
    law = exact_law(target, ids, 2.0, 3)
    assert law.max(axis=(0, 1)).min() < 0.5 * law.max()
    arms = [{"draft": draft, "length": 3}, {"prompt_lookup": 2, "length": 2}]
    for name in ("fixed:0", "exp3"):
        bandit = BanditSpec(target, arms, algorithm=name, random_state=0)
        generator = torch.Generator().manual_seed(0)
        new = torch.cat(
            [
                bandit.generate(ids, max_new_tokens=3, do_sample=True, temperature=2.0, top_k=0, generator=generator)
                for _ in range(runs)
            ]
        )[:, 3:]
        for place in range(3):
            expected = law.sum(axis=tuple({0, 1, 2} - {place})) * runs
            observed = np.bincount(new[:, place], minlength=8)
            assert stats.chisquare(observed, expected).pvalue > 1e-3
        pairs = law.sum(axis=0).ravel() * runs  # second and third together, the rare ones pooled
        observed = np.bincount(8 * new[:, 1] + new[:, 2], minlength=64)
        rare = pairs < 5
        assert (
            stats.chisquare([*observed[~rare], observed[rare].sum()], [*pairs[~rare], pairs[rare].sum()]).pvalue > 1e-3
        )


def test_sampling_is_repeatable_and_leaves_global_state_alone() -> None:
    bandit = BanditSpec(TARGET, ARMS["all"], algorithm="exp3", random_state=3)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    given = {"max_new_tokens": 30, "do_sample": True, "top_p": 0.9}
    first, again = bandit.generate(PROMPT, **given), bandit.generate(PROMPT, **given)
    assert torch.equal(first, again)
    assert not torch.equal(first, BanditSpec(TARGET, ARMS["all"], random_state=4).generate(PROMPT, **given))
    free = BanditSpec(TARGET, ARMS["all"], algorithm="exp3")
    seeded = [free.generate(PROMPT, generator=torch.Generator().manual_seed(5), **given) for _ in range(2)]
    assert torch.equal(*seeded)
    assert not torch.equal(free.generate(PROMPT, **given), free.generate(PROMPT, **given))
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


def test_drafts_equal_to_the_target_are_always_accepted_when_sampling() -> None:
    bandit = BanditSpec(TARGET, [Arm(draft=TARGET, length=4)], random_state=0)
    for given in ({"temperature": 1.7}, {"top_k": 5}, {"top_p": 0.6, "repetition_penalty": 1.2}):
        bandit.generate(PROMPT, max_new_tokens=51, do_sample=True, **given)
        assert bandit.stats_["rounds"] == 10


# --- rounds and statistics -----------------------------------------------------------------------------------------


def test_a_perfect_draft_needs_the_fewest_rounds() -> None:
    bandit = BanditSpec(TARGET, [Arm(draft=TARGET, length=4)])
    bandit.generate(PROMPT, max_new_tokens=51)
    found = bandit.stats_
    assert (found["rounds"], found["tokens"], found["tokens_per_round"]) == (10, 51, 5.0)
    assert found["mean_accepted"] == [5.0]
    for n in (2, 17, 30):
        bandit.generate(PROMPT, max_new_tokens=n)
        assert bandit.stats_["rounds"] == math.ceil((n - 1) / 5)


def test_a_draft_that_is_never_right_gains_one_token_a_round() -> None:
    wrong = llama(0)  # the target with its output turned by one token
    with torch.no_grad():
        wrong.lm_head.weight.copy_(wrong.lm_head.weight.roll(1, 0))
    bandit = BanditSpec(TARGET, [Arm(draft=wrong, length=3)])
    assert torch.equal(bandit.generate(PROMPT, max_new_tokens=20), plain(TARGET, n=20))
    assert bandit.stats_["mean_accepted"] == [1.0]
    assert bandit.stats_["rounds"] == 19


@pytest.mark.parametrize("arms", sorted(ARMS))
def test_statistics_agree_with_each_other(arms: str) -> None:
    bandit = BanditSpec(TARGET, ARMS[arms], random_state=0)
    bandit.generate(PROMPT, max_new_tokens=41)
    found = bandit.stats_
    longest = max(arm.length for arm in bandit.arms)
    assert math.ceil(40 / (longest + 1)) <= found["rounds"] <= 40
    assert sum(n for _, n, _ in found["history"]) == 40 == found["tokens"] - 1
    assert found["tokens_per_round"] == pytest.approx(40 / found["rounds"])
    assert sum(found["pulls"]) == found["rounds"]
    assert 0 < sum(s for _, _, s in found["history"]) < found["seconds"]
    for arm, mean in enumerate(found["mean_accepted"]):
        used = [n for i, n, _ in found["history"] if i == arm]
        assert len(used) == found["pulls"][arm]
        assert mean == pytest.approx(np.mean(used)) if used else math.isnan(mean)


def test_one_arm_needs_no_bandit() -> None:
    rounds = set()
    for algorithm in ("ucb", "exp3", "thompson", "greedy", "uniform", "fixed:0"):
        bandit = BanditSpec(TARGET, ARMS["close"], algorithm=algorithm, random_state=0)
        bandit.generate(PROMPT, max_new_tokens=40)
        rounds.add(tuple(n for _, n, _ in bandit.stats_["history"]))
    assert len(rounds) == 1
    assert 1 < np.mean(*rounds) < 6


def test_the_bandit_finds_the_good_draft() -> None:
    bandit = BanditSpec(TARGET, [SMALL, Arm(length=0), Arm(draft=TARGET)], memory="session")
    bandit.generate(PROMPT, max_new_tokens=100)
    assert bandit.stats_["pulls"][2] > 0.7 * bandit.stats_["rounds"]
    bandit.generate(PROMPT, max_new_tokens=51)
    assert bandit.stats_["pulls"][2] == bandit.stats_["rounds"]  # remembered
    bandit.reset()
    bandit.generate(PROMPT, max_new_tokens=51)
    assert bandit.stats_["pulls"][0] > 0
    fresh = BanditSpec(TARGET, bandit.arms, memory="prompt")
    for _ in range(2):
        fresh.generate(PROMPT, max_new_tokens=51)
        assert fresh.stats_["pulls"][0] > 0


def test_cost_reward_weighs_drafted_tokens() -> None:
    """The draft is always right; at a cost of one target forward per drafted token plain decoding is as good."""
    arms = [Arm(draft=TARGET, length=4, cost=2.0), Arm(length=0)]
    pulls = {}
    for reward in ("tokens", "cost"):
        bandit = BanditSpec(TARGET, arms, reward=reward, scale=0.05)
        bandit.generate(PROMPT, max_new_tokens=80)
        pulls[reward] = bandit.stats_["pulls"]
    assert pulls["tokens"][0] > pulls["tokens"][1]
    assert pulls["cost"][1] > 5 * pulls["cost"][0]
    default = BanditSpec(TARGET, [Arm(draft=SMALL), Arm(prompt_lookup=1)])
    assert default._costs == [SMALL.num_parameters() / TARGET.num_parameters(), 0.0]


def test_throughput_reward_stays_on_the_scale() -> None:
    bandit = BanditSpec(TARGET, ARMS["lengths"], reward="throughput")
    slow = [bandit._gain(0, 1, 0, seconds) for seconds in (1.0, 1.0, 1.0)]
    assert slow == [5.0, 5.0, 5.0]  # 1 + L for the fastest so far
    assert bandit._gain(1, 4, 3, 1.0) == 5.0
    assert bandit._gain(1, 4, 3, 1.0) == 5.0
    assert bandit._gain(0, 1, 0, 1.0) == pytest.approx(1 + 4 * 1 / 4, abs=0.3)
    before = bandit._gain(1, 4, 3, 1.0)
    assert bandit._gain(1, 4, 3, 1e-6) == 5.0  # one odd round ...
    assert bandit._gain(1, 4, 3, 1.0) == pytest.approx(before)  # ... moves nothing


def test_pickle_keeps_what_a_session_taught() -> None:
    bandit = BanditSpec(TARGET, [SMALL, Arm(draft=TARGET)], memory="session")
    bandit.generate(PROMPT, max_new_tokens=60)
    copy = pickle.loads(pickle.dumps(bandit))
    for each in (bandit, copy):
        each.generate(PROMPT, max_new_tokens=30)
    assert copy.stats_["pulls"] == bandit.stats_["pulls"]
    assert copy.stats_["pulls"][0] < 3


def test_other_precisions() -> None:
    for dtype in (torch.float64, torch.bfloat16):
        model = llama(0).to(dtype)
        bandit = BanditSpec(model, [Arm(draft=llama(3)), Arm(prompt_lookup=3)], random_state=0)
        got = bandit.generate(PROMPT, max_new_tokens=20, do_sample=False)
        assert got.shape[1] == PROMPT.shape[1] + 20
        if dtype is torch.float64:
            assert torch.equal(got, plain(model, n=20))


# --- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"arms": []}, ValueError, "at least one arm"),
        ({"arms": SMALL}, TypeError, "sequence of arms"),
        ({"arms": ["lookup"]}, TypeError, "each arm"),
        ({"arms": [llama(0, vocab_size=41)]}, ValueError, "has 41 tokens, that of the model 40"),
        ({"arms": [Arm(table=NGramDraft().fit([[40]]))]}, ValueError, "holds token 40"),
        ({"algorithm": "best"}, ValueError, "algorithm must be one of 'ucb'"),
        ({"algorithm": "fixed:1"}, ValueError, "i in 0..0"),
        ({"algorithm": None}, ValueError, "algorithm"),
        ({"reward": "speed"}, ValueError, "reward"),
        ({"memory": "forever"}, ValueError, "memory"),
        ({"scale": -1.0}, ValueError, "scale"),
        ({"delta": 0.0}, ValueError, "delta"),
        ({"delta": 1.5}, ValueError, "delta"),
        ({"model": "gpt2"}, TypeError, "model must be"),
    ],
)
def test_bad_settings_are_named(given: dict[str, object], error: type[Exception], message: str) -> None:
    given = {"model": TARGET, "arms": [{"prompt_lookup": 2}], **given}
    with pytest.raises(error, match=message):
        BanditSpec(given.pop("model"), given.pop("arms"), **given)


@pytest.mark.parametrize(
    ("prompt", "given", "message"),
    [
        (PROMPT.repeat(2, 1), {}, r"one prompt .* got \(2, 9\)"),
        (PROMPT, {"num_beams": 2}, "num_beams=1"),
        (PROMPT, {"num_return_sequences": 2, "do_sample": True}, "one prompt"),
        (PROMPT, {"cache_implementation": "static"}, "needs a dynamic cache"),
        (PROMPT, {"use_cache": False}, "needs a dynamic cache"),
        (PROMPT, {"prompt_lookup_num_tokens": 3}, "greedily or by sampling"),
        (PROMPT, {"assistant_model": SMALL}, "assistant_model"),
        (PROMPT, {"output_hidden_states": True, "return_dict_in_generate": True}, "output_hidden_states"),
        (PROMPT, {"guidance_scale": 1.5}, "UnbatchedClassifierFreeGuidance"),
        (PROMPT, {"stop_strings": "x"}, "tokenizer"),
        (PROMPT, {"synced_gpus": True}, "synced_gpus"),
    ],
)
def test_bad_calls_are_named(prompt: object, given: dict[str, object], message: str) -> None:
    bandit = BanditSpec(TARGET, [{"prompt_lookup": 2}])
    with pytest.raises(ValueError, match=message):
        bandit.generate(prompt, max_new_tokens=5, **given)


def test_models_that_cannot_be_drafted_for() -> None:
    t5 = transformers.T5ForConditionalGeneration(
        transformers.T5Config(vocab_size=40, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    )
    with pytest.raises(ValueError, match="must be a decoder"):
        BanditSpec(t5, [{"prompt_lookup": 2}])
    mamba = transformers.MambaForCausalLM(
        transformers.MambaConfig(vocab_size=40, hidden_size=8, num_hidden_layers=1, state_size=4, pad_token_id=0)
    ).eval()
    with pytest.raises(ValueError, match="a running state"):
        BanditSpec(mamba, [{"prompt_lookup": 2}]).generate(PROMPT, max_new_tokens=5)


def test_a_draft_with_too_few_positions_is_named() -> None:
    short = llama(1, max_position_embeddings=16)
    bandit = BanditSpec(TARGET, [Arm(draft=short, name="short")])
    with pytest.raises(ValueError, match=r"arm 0 \(short\) has 16 positions, .* grow to 29 tokens"):
        bandit.generate(PROMPT, max_new_tokens=20)
    bandit.generate(PROMPT, max_new_tokens=7)


def test_training_mode_is_left_for_the_call() -> None:
    draft = llama(0, attention_dropout=0.9).train()
    bandit = BanditSpec(TARGET, [draft])
    with pytest.warns(UserWarning, match="training mode"):
        bandit.generate(PROMPT, max_new_tokens=21)
    assert bandit.stats_["mean_accepted"] == [5.0]
    assert draft.training
    draft.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bandit.generate(PROMPT, max_new_tokens=5)


def test_broken_weights_raise_instead_of_writing() -> None:
    broken = llama(0)
    with torch.no_grad():
        broken.lm_head.weight.fill_(torch.nan)
    with pytest.raises(ValueError, match="NaN"):
        BanditSpec(broken, [{"prompt_lookup": 2}]).generate(PROMPT, max_new_tokens=5)
    bandit = BanditSpec(TARGET, [broken])
    assert torch.equal(bandit.generate(PROMPT, max_new_tokens=10, do_sample=False), plain(TARGET, n=10))
    assert bandit.generate(PROMPT, max_new_tokens=10, do_sample=True).max() < 40
