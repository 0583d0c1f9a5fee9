//! What stands before several replicas: a connection goes to whichever of them answers.

use std::net::SocketAddr;

use anyhow::Result;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// A running balancer; dropping it ends it.
pub(super) struct Balancer(AbortHandle);

impl Balancer {
    pub(super) async fn start(at: SocketAddr, replicas: Vec<SocketAddr>) -> Result<Self> {
        let listener = TcpListener::bind(at).await?;
        let task = tokio::spawn(async move {
            let mut turn = 0_usize;
            while let Ok((visitor, _)) = listener.accept().await {
                turn = turn.wrapping_add(1);
                let mut order = replicas.clone();
                order.rotate_left(turn % replicas.len().max(1));
                tokio::spawn(pass(visitor, order));
            }
        });
        Ok(Self(task.abort_handle()))
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn pass(mut visitor: TcpStream, replicas: Vec<SocketAddr>) {
    for replica in replicas {
        if let Ok(mut stream) = TcpStream::connect(replica).await {
            // Either side may be killed at any moment: that is the visitor's problem, and the point.
            copy_bidirectional(&mut visitor, &mut stream).await.ok();
            return;
        }
    }
}
