"""AgentGym's tools on a to-do account, with the names, arguments and results of its server."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from agentgym_rl.envs.texts import read_texts
from agentgym_rl.envs.tooluse import Refused, ToolEnvTexts
from agentgym_rl.envs.tooluse.todo.account import Account, Item, Project

Row = dict[str, Any]


def project_row(project: Project) -> Row:
    """A project as the tools show one."""
    return {
        "id": project.id,
        "order": project.order,
        "color": project.color,
        "name": project.name,
        "is_favorite": project.is_favorite,
    }


def task_row(item: Item) -> Row:
    """A task as the tools show one."""
    return {
        "id": item.id,
        "order": item.order,
        "content": item.content,
        "is_completed": item.is_completed,
        "priority": item.priority,
        "due_date": item.due.isoformat(),
    }


@dataclass
class Session:
    """What the tools read and change. The tools are its methods."""

    account: Account

    def get_user_current_date(self) -> str:
        return self.account.today.isoformat()

    def get_user_current_location(self) -> str:
        return self.account.city

    def get_projects(self) -> list[Row]:
        return [project_row(project) for project in self.account.projects]

    def update_project(self, project_id: str, is_favorite: str) -> Row:
        project = replace(self._project(project_id), is_favorite=is_favorite == "True")
        self.account = self.account.with_project(project)
        return {"message": "Update the project successfully.", "project": project_row(project)}

    def get_tasks(self, project_id: str) -> list[Row]:
        return [task_row(item) for item in self.account.of(self._project(project_id))]

    def get_task_description(self, task_id: str) -> Row:
        item = self._item(task_id)
        return {"id": item.id, "content": item.content, "description": item.description}

    def get_task_duration(self, task_id: str) -> Row:
        item = self._item(task_id)
        return {"id": item.id, "content": item.content, "duration": f"{item.minutes}(minute)"}

    def complete_task(self, task_id: str) -> Row:
        item = self._item(task_id)
        self.account = self.account.with_item(replace(item, is_completed=True))
        row = task_row(item)
        del row["is_completed"]
        return {"message": "Complete task successfully.", "task": row}

    def update_task(self, task_id: str, due_date: str) -> Row:
        item = self._item(task_id)
        try:
            due = date.fromisoformat(due_date)
        except ValueError:
            raise Refused(f"due_date {due_date[:20]!r} is no date; write YYYY-MM-DD") from None
        moved = replace(item, due=due)
        self.account = self.account.with_item(moved)
        return {"message": "Update the task successfully", "task": task_row(moved)}

    def delete_task(self, task_id: str) -> Row:
        item = self._item(task_id)
        self.account = self.account.without(item)
        return {"message": "Delete the task successfully.", "task": task_row(item)}

    def _project(self, project_id: str) -> Project:
        for project in self.account.projects:
            if project.id == project_id:
                return project
        raise Refused(f"project {project_id[:20]!r} does not exist; get_projects gives the ids")

    def _item(self, task_id: str) -> Item:
        for item in self.account.open:
            if item.id == task_id:
                return item
        raise Refused(f"there is no open task {task_id[:20]!r}; get_tasks gives the ids")


def _brief_projects(rows: Sequence[Row]) -> str:
    return ", ".join(f"{row['id']} {row['name']}{' favorite' * row['is_favorite']}" for row in rows)


def _brief_tasks(rows: Sequence[Row]) -> str:
    return ", ".join(f"{row['id']} {row['content']} p{row['priority']} {row['due_date']}" for row in rows) or "none"


TEXTS = read_texts(__file__, ToolEnvTexts)

FUNCTIONS = TEXTS.functions(
    TEXTS.methods(Session),
    {
        "get_projects": _brief_projects,
        "get_tasks": _brief_tasks,
        "get_task_description": lambda row: str(row["description"]).replace("\n", " "),
        "get_task_duration": lambda row: str(row["duration"]),
        **dict.fromkeys(("update_project", "complete_task", "update_task", "delete_task"), lambda row: "done"),
    },
)
