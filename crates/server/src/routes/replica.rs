//! Replicas, as last heard of, and the singleton work among them.

use axum::Json;
use axum::extract::State;

use crate::auth::Reader;
use crate::page::List;
use crate::view::{ReplicaView, TaskView};
use crate::{AppState, Problem};

/// Lists the replicas, oldest first.
#[utoipa::path(
    get, path = "/v1/replicas", operation_id = "listReplicas", tag = "replicas",
    responses(
        (status = 200, description = "All replicas that have not left", body = List<ReplicaView>),
    ),
)]
pub(super) async fn list(
    _reader: Reader,
    State(state): State<AppState>,
) -> Result<Json<List<ReplicaView>>, Problem> {
    let replicas = state.cluster.replicas().await?;
    Ok(Json(List::whole(replicas.into_iter().map(ReplicaView::from).collect())))
}

/// Lists the tasks that one replica does for all: who did each last, when, and what came of it.
#[utoipa::path(
    get, path = "/v1/tasks", operation_id = "listTasks", tag = "replicas",
    responses(
        (status = 200, description = "The last status of every task", body = List<TaskView>),
    ),
)]
pub(super) async fn tasks(
    _reader: Reader,
    State(state): State<AppState>,
) -> Result<Json<List<TaskView>>, Problem> {
    let tasks = state.cluster.tasks().await?;
    Ok(Json(List::whole(tasks.into_iter().map(TaskView::from).collect())))
}
