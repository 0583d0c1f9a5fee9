//! The database and what opens it.

use super::finding::Finding;
use crate::config::Config;

pub(super) async fn look(_config: &Config) -> Vec<Finding> {
    Vec::new()
}
