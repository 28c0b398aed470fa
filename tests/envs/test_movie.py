"""Movie: the tools and the database. What all environments of tools share is in test_tooluse."""

import re
from collections import Counter

import pytest
from tool_sessions import call, run_episode

from agentgym_rl.envs import Task
from agentgym_rl.envs.core import Style, TaskNotFound
from agentgym_rl.envs.tooluse import Refused
from agentgym_rl.envs.tooluse.movie import Movie
from agentgym_rl.envs.tooluse.movie.database import CREDITS, FILMS, PEOPLE, database
from agentgym_rl.envs.tooluse.movie.tools import FUNCTIONS


def use(name: str, /, **arguments: object) -> object:
    return FUNCTIONS[name].run(database(), **arguments)


GOAL = 'What is the Facebook id of the one who plays Madame Viktor in the film "Perfect Journey"? Answer with the id.'
ACTIONS = (
    call("get_search_movie", movie_name="perfect journey"),
    call("get_movie_details", movie_id=860650),
    call("get_person_external_ids", person_id="253283"),
    call("get_person_details", person_id="860650"),
    call("finish", answer="NavarroFelix56"),
)


@pytest.mark.parametrize(
    ("style", "first", "expected"),
    [
        (
            "agentgym",
            f"Now new trial starts.\nYou should perform actions to accomplish the goal: {GOAL}\nGive me one action.",
            [
                "Observation: [{'id': 860650, 'overview': 'A story about war and dreams.', 'title': "
                "'Perfect Journey'}]\nGive me one action.",
                "Observation: {'title': 'Perfect Journey', 'budget': 10300000, 'genres': [{'id': 53, 'name': "
                "'Thriller'}], 'revenue': 21465263, 'vote_average': 7.681, 'release_date': '2006-08-20'}\n"
                "Give me one action.",
                "Observation: {'imdb_id': 'nm7028909', 'facebook_id': 'navarrofelix56', 'instagram_id': None, "
                "'twitter_id': None}\nGive me one action.",
                "Observation: ERROR | there is no person with the id 860650; get_search_person finds ids\n"
                "Give me one action.",
                "Observation: NavarroFelix56\nGive me one action.",
            ],
        ),
        (
            "compact",
            GOAL,
            [
                "860650 | A story about war and dreams. | Perfect Journey",
                "Perfect Journey | 10300000 | 53 | Thriller | 21465263 | 7.681 | 2006-08-20",
                "nm7028909 | navarrofelix56 | None | None",
                "invalid: there is no person with the id 860650; get_search_person finds ids",
                "NavarroFelix56",
            ],
        ),
    ],
)
def test_transcript(style: Style, first: str, expected: list[str]) -> None:
    goal, steps = run_episode(Movie(style), 1001, *ACTIONS)
    assert goal == first
    assert [step.observation.text for step in steps] == expected
    assert [step.reward for step in steps] == [0, 0, 0, 0, 1]
    assert [step.info["invalid"] for step in steps] == [False, False, False, True, False]


def test_searches() -> None:
    film = next(iter(database().films.values()))
    assert use("get_search_movie", movie_name=film.title.upper()) == use(
        "get_search_movie", movie_name=f" {film.title}"
    )
    part = film.title[1:]
    movies = use("get_search_movie", movie_name=part)
    assert isinstance(movies, list) and part.lower() in movies[0]["title"].lower()
    for nothing in ("", " ", "no such film"):
        with pytest.raises(Refused, match="no film is called"):
            use("get_search_movie", movie_name=nothing)
    with pytest.raises(Refused, match=r"nobody is called 'x+'$"):
        use("get_search_person", person_name="x" * 1000)


@pytest.mark.parametrize("number", ["", "x", "-1", "1.5", "\u0663", "9" * 5000, -1, 10**40, 0, True])
def test_ids_that_are_not_there(number: object) -> None:
    with pytest.raises(Refused, match="there is no film with the id"):
        use("get_movie_cast", movie_id=number)


def test_every_film_and_person_can_be_looked_up() -> None:
    films = database()
    for film in list(films.films.values())[::30]:
        for function in FUNCTIONS.values():
            if "movie_id" in function.tool.parameters:
                result = function.run(films, movie_id=str(film.id))
                assert len(str(result)) < 2000
                assert len(function.brief(result)) < len(str(result))
    for person in list(films.people.values())[::30]:
        for function in FUNCTIONS.values():
            if "person_id" in function.tool.parameters:
                assert len(str(function.run(films, person_id=person.id))) < 2000


def test_the_database_is_whole() -> None:
    films = database()
    assert (len(films.films), len(films.people)) == (FILMS, PEOPLE)
    assert (len(films.titles), len(films.names)) == (FILMS, PEOPLE)
    assert max(len(roles) for roles in films.acted.values()) <= CREDITS
    assert max(len(jobs) for jobs in films.worked.values()) <= CREDITS
    for film in films.films.values():
        assert [job for _, job in film.crew].count("Director") == 1
        assert len({character for _, character in film.cast}) == len(film.cast) >= 4
        assert len({person.id for person, _ in film.cast}) == len(film.cast) <= 10
        assert len(film.crew) <= 10
        assert all((film, role) in films.acted[person.id] for person, role in film.cast)
        assert {title for _, title in film.alternative}.isdisjoint(films.titles)
    gains = Counter(film.revenue > film.budget for film in films.films.values())
    assert min(gains.values()) > FILMS / 4


def test_official_tasks_are_left_to_their_server() -> None:
    with pytest.raises(TaskNotFound, match=r"movie_237 is a task of AgentGym's.*host=remote"):
        Movie().goal(Task("movie", 237))
    with pytest.raises(TaskNotFound, match="movie has no task 238"):
        Movie().goal(Task("movie", 238))


def test_the_film_in_which_someone_plays_a_role_is_one() -> None:
    asked = re.search(r"in which (\w+ \w+) plays (\w+ \w+)", Movie().goal(Task("movie", 7637)))
    assert asked is not None
    person = database().names[asked[1].lower()]
    assert [role for _, role in database().acted[person]].count(asked[2]) == 1
