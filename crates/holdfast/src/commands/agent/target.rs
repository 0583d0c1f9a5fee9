//! What the agent looks after, as configured.

use std::{sync::Arc, time::Duration};

use holdfast_agent::{
    Error, FilesConfig, FilesTarget, HaproxyConfig, HaproxyTarget, Layout, Observing, Target,
};

use holdfast_gateway::files::Access;

use super::sentence;
use crate::{
    config::{AgentConfig, AgentMode, FileLayout, FilesSection, HaproxySection},
    failure::Failure,
};

/// Makes it; an agent that applies also makes what a first start of HAProxy needs.
pub(super) async fn make(config: &AgentConfig) -> Result<Arc<dyn Target>, Failure> {
    let observes = config.agent.mode == AgentMode::Observe;
    let made: Result<Arc<dyn Target>, Error> = match (&config.haproxy, &config.files) {
        (Some(section), _) => haproxy(config, section, observes).await,
        (None, Some(section)) => files(config, section),
        (None, None) => return Err(Failure::usage("There is nothing to put certificates on.")),
    };
    let target = made.map_err(|error| Failure::failed(sentence(&error)))?;
    Ok(if observes { Arc::new(Observing::new(target)) } else { target })
}

async fn haproxy(
    config: &AgentConfig,
    section: &HaproxySection,
    observes: bool,
) -> Result<Arc<dyn Target>, Error> {
    let mut settings = HaproxyConfig::new(
        section.socket.clone(),
        section.directory.clone(),
        section.list(),
        section.probe,
        config.agent.data.clone(),
    );
    settings.bufsize = usize::try_from(section.bufsize).unwrap_or(usize::MAX);
    let target = HaproxyTarget::new(settings)?;
    if !observes {
        target.prepare().await?;
    }
    Ok(Arc::new(target))
}

fn files(config: &AgentConfig, section: &FilesSection) -> Result<Arc<dyn Target>, Error> {
    let mut settings = FilesConfig::new(section.directory.clone(), config.agent.data.clone());
    settings.layout = match section.layout {
        FileLayout::Combined => Layout::Combined,
        FileLayout::Separate => Layout::Separate,
        FileLayout::Both => Layout::Both,
    };
    settings.access = section.permissions().map_or(Access::Private, Access::Mode);
    settings.reload.clone_from(&section.reload);
    settings.reload_limit = Duration::from_secs(section.reload_seconds.into());
    settings.probe = section.probe;
    Ok(Arc::new(FilesTarget::new(settings)?))
}
