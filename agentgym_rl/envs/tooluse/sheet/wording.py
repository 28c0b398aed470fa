"""What precedes a task, for the agent."""

ABOUT = "You work on a spreadsheet for the user: a workbook of named sheets."

HINT = (
    "Open the sheet that the goal names before anything else, and look at it with get_all_values. Cells have A1 "
    "notation; rows and columns count from 1. Sorting moves the header, too, unless its row is frozen. A formula "
    "takes either position_list, or start_position and end_position. Change nothing that was not asked for; in the end "
    'call finish with the answer "done".'
)

EXAMPLE = """Goal: In "Sheet9", raise the stock of plates by 5 and delete the row of cups.
Thought: I open the sheet first.

Action: open_sheet with Action Input: {"name": "Sheet9"}
Observation: You have opened Sheet9
Thought: Now I look at what it holds.

Action: get_all_values with Action Input: {}
Observation: [['Item', 'Stock'], ['bowls', '12'], ['plates', '30'], ['cups', '7']]
Thought: The stock of plates is in B3.

Action: update_cell with Action Input: {"position": "B3", "value": 35}
Observation: [['Item', 'Stock'], ['bowls', '12'], ['plates', '35'], ['cups', '7']]
Thought: The row of cups is row 4.

Action: delete_batch_data with Action Input: {"dimension": "row", "index_list": [4]}
Observation: [['Item', 'Stock'], ['bowls', '12'], ['plates', '35']]
Thought: Both are done.

Action: finish with Action Input: {"answer": "done"}
Observation: done"""
