//! Looking at the world's DNS, behind a trait so that tests can say what the world says.

use async_trait::async_trait;
use holdfast_dns::{Expectation, Finding, Resolver};

/// Whoever can look a name up.
#[async_trait]
pub trait Look: Send + Sync {
    /// Looks, now, whether a name is as expected.
    async fn look(&self, expectation: &Expectation) -> Finding;
}

#[async_trait]
impl Look for Resolver {
    async fn look(&self, expectation: &Expectation) -> Finding {
        Self::look(self, expectation).await
    }
}
