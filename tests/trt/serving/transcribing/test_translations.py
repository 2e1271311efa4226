"""Languages and translations over OpenAI's API, by its own client library, of a model that writes after prompts."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import openai
import pytest

from common.recognition.decoding import DecodingOptions
from tests.fastconformer.attention import references as golden
from tests.trt.serving.running import pretended, served
from trt.runtime import loading
from trt.serve import ServeConfig
from trt.serving.admission.limits import RequestError
from trt.serving.transcribing.hearing import Hearing

pytestmark = pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # of OpenAI's models, not of its client


@pytest.fixture(scope="module")
def asr(canary):
    return loading.load(canary("canary2_agg"))


@pytest.fixture(scope="module")
def client(canary):
    with served(ServeConfig(asr=canary("canary2_agg"), port=0)) as running:
        yield openai.OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0)


def test_translations_are_those_of_the_model_and_to_english_unless_said(client, asr):
    flac = golden.flacs()[0]
    for to, target in (({}, "en"), ({"to": "german"}, "de"), ({"to": "en", "language": "de"}, "en")):
        source = to.get("language", "auto")
        (expected,) = asr.transcribe([flac], source_language=source, target_language=target)
        found = client.audio.translations.create(model="whisper-1", file=flac, extra_body=to)
        assert found.text == expected.text
        assert found.text
    found = client.audio.translations.create(
        model="whisper-1", file=flac, response_format="verbose_json", extra_body={"to": "de"}
    )
    assert (found.language, found.task, found.duration) == ("german", "translate", pytest.approx(2.045))
    assert found.segments
    subtitles = client.audio.translations.create(
        model="canary", file=flac, response_format="srt", extra_body={"to": "de"}
    )
    assert " --> " in subtitles


def test_a_language_has_an_effect_and_is_found_where_it_is_not_said(client, asr):
    flac = golden.flacs()[1]
    texts = {}
    for language in ("en", "de"):
        (expected,) = asr.transcribe([flac], source_language=language)
        found = client.audio.transcriptions.create(model="whisper-1", file=flac, language=language)
        assert found.text == expected.text
        texts[language] = found.text
    assert texts["en"] != texts["de"]
    found = client.audio.transcriptions.create(model="whisper-1", file=flac, response_format="verbose_json")
    assert (found.language, found.text) == ("english", texts["en"])


def test_requests_in_other_languages_share_a_batch(client, asr):
    """As many as there are at once have each the text that it would have alone."""
    flacs = golden.flacs()
    asked = [(flac, target) for flac in flacs for target in ("en", "de")]
    alone = [asr.transcribe([flac], source_language="en", target_language=to)[0].text for flac, to in asked]

    async def together():
        own = openai.AsyncOpenAI(base_url=str(client.base_url), api_key="none", max_retries=0)
        jobs = [
            own.audio.translations.create(model="whisper-1", file=flac, extra_body={"language": "en", "to": to})
            for flac, to in asked
        ]
        return [found.text for found in await asyncio.gather(*jobs)]

    assert asyncio.run(together()) == alone


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"language": "fr"}, "language 'fr': this model writes english, german"),
        ({"to": "fr"}, "to 'fr': expected one of de, en"),
        ({"to": "klingon"}, "to 'klingon': expected one of de, en"),
    ],
)
def test_languages_that_the_model_does_not_know_are_refused(client, asked, message):
    with pytest.raises(openai.BadRequestError) as refused:
        client.audio.translations.create(model="whisper-1", file=golden.flacs()[0], extra_body=asked)
    assert message in refused.value.message


@pytest.mark.parametrize("source", ["", "de", "german"])
def test_a_translation_that_the_model_has_not_learned_is_refused(asr, source, monkeypatch):
    monkeypatch.setattr(asr.prompts, "directions", ("de-de", "en-de", "en-en"))
    hearing = SimpleNamespace(ears=SimpleNamespace(is_prompted=True, asr=asr, languages=asr.languages))
    with pytest.raises(
        RequestError, match="target_language = 'en' of 'de': this model has learned de-de, en-de, en-en"
    ):
        Hearing.told(hearing, source, "en")
    monkeypatch.setattr(asr.prompts, "directions", ("en-de", "en-en"))
    with pytest.raises(RequestError, match="transcripts of 'de': this model has learned en-de, en-en alone") as refused:
        Hearing.told(hearing, "de")
    assert refused.value.param == "language"
    monkeypatch.setattr(asr.prompts, "directions", ("de-de", "en-de", "en-en"))
    assert Hearing.told(hearing, source) == ({"source_lang": "de"} if source else {})
    assert Hearing.told(hearing, "en", "en") == {"source_lang": "en", "target_lang": "en"}
    assert Hearing.told(hearing, "", "de") == {"target_lang": "de"}


def test_an_attention_decoder_favours_words_and_searches_with_a_beam(client, asr):
    flacs, words = golden.flacs(), ("zzz", "qq")
    decoder = asr.decoder(DecodingOptions(hot_words=words, beam=3))
    for language in ("en", "de"):
        alone = [each.text for each in asr.stream(flacs, source_language=language, decoder=decoder)]
        asked = {"language": language, "keywords": list(words), "beam": 3}
        found = [client.audio.transcriptions.create(model="whisper-1", file=f, extra_body=asked).text for f in flacs]
        assert found == alone
    assert alone != [each.text for each in asr.transcribe(flacs, source_language="de")]


def test_a_model_without_prompts_does_not_translate():
    cfg = ServeConfig(asr=Path("none"), port=0)
    with served(cfg, pretended(cfg)) as running:
        client = openai.OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0)
        with pytest.raises(openai.BadRequestError) as refused:
            client.audio.translations.create(model="whisper-1", file=golden.flacs()[0])
    assert "this model writes what is said, in no other language" in refused.value.message
