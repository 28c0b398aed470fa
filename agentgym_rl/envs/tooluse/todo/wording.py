"""What precedes a task, for the agent."""

ABOUT = "You look after the user's to-do account: you answer questions about its projects and tasks, or change them."

HINT = (
    "Ids of projects and tasks come from get_projects and get_tasks; never make one up. A question is answered with "
    'finish; after a change that asks no question, call finish with the answer "done". Change nothing that was not '
    "asked for."
)

EXAMPLE = """Goal: Is "Feed the cat" a task of the project Pets? Answer yes or no.
Thought: I need the id of the project Pets first.

Action: get_projects with Action Input: {}
Observation: [{'id': '2200000001', 'order': 1, 'color': 'charcoal', 'name': 'Pets', 'is_favorite': False}]
Thought: Its id is 2200000001, so I can list its tasks.

Action: get_tasks with Action Input: {"project_id": "2200000001"}
Observation: [{'id': '2900000001', 'order': 1, 'content': 'Feed the cat', 'is_completed': False, 'priority': 2, \
'due_date': '2030-10-10'}]
Thought: The task is there.

Action: finish with Action Input: {"answer": "yes"}
Observation: yes"""
