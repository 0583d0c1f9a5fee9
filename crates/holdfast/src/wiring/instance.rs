//! Who this replica is.

use crate::{config::Config, environment::Environment};

/// The name people know it by: configured, the pod's, or made from machine, process and chance.
pub(crate) fn id(config: &Config, environment: &Environment) -> String {
    let configured = config.replicas.instance_id.as_deref();
    let pod = environment.value("POD_NAME").filter(|name| !name.is_empty());
    match configured.or(pod) {
        Some(name) => name.to_owned(),
        None => {
            let random = uuid::Uuid::new_v4().simple().to_string();
            let random: String = random.chars().take(8).collect();
            format!("{}_{}_{random}", machine(), std::process::id())
        }
    }
}

/// This machine's name.
pub(crate) fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}
