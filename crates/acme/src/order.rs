//! Orders: made, read, finalized, and their certificates downloaded.

use std::sync::Arc;
use std::time::Duration;

use holdfast_gateway::point::Point;
use holdfast_model::{Hostname, Note};
use instant_acme::{CertificateIdentifier, Identifier, OrderState};

use crate::certificate::Chain;
use crate::directory::Directory;
use crate::problem::Problem;
use crate::session::Session;
use crate::transport::{during, malformed, not_acme, told};
use crate::{Ca, Error, NewOrder, OrderStatus, authorization};

impl Ca {
    /// Orders a certificate for a name. `replaces_chain_pem` is the one it will take the place of: a CA that knows it
    /// may favour the order, one that objects is asked again without.
    ///
    /// # Errors
    /// When the CA fails or refuses; [`Error::class`] says what that means.
    pub async fn new_order(
        &self,
        name: &Hostname,
        replaces_chain_pem: Option<&str>,
    ) -> Result<NewOrder, Error> {
        let replaces = replaces_chain_pem.and_then(crate::renewal::identifier);
        let order = self.ask(|session| {
            let replaces = replaces.clone();
            async move {
                self.check_profile(&session.directory)?;
                match self.place(&session, name, replaces.clone()).await {
                    Err(error) if replaces.is_some() && error.objects_to_replacing() => {
                        tracing::debug!(%name, error = &error as &dyn std::error::Error, "ordering without `replaces`");
                        self.place(&session, name, None).await
                    }
                    placed => placed,
                }
            }
        })
        .await?;
        if let Some(account) = self.known_account() {
            self.accepted(account).await;
        }
        Ok(order)
    }

    async fn place(
        &self,
        session: &Session,
        name: &Hostname,
        replaces: Option<CertificateIdentifier<'static>>,
    ) -> Result<NewOrder, Error> {
        let identifiers = [Identifier::Dns(name.as_str().to_owned())];
        let mut request = instant_acme::NewOrder::new(&identifiers);
        if let Some(profile) = &self.0.config.profile {
            request = request.profile(profile);
        }
        if let Some(certificate) = replaces.filter(|_| session.directory.renewal_info.is_some()) {
            request = request.replaces(certificate);
        }
        let at = Point::ACME_NEW_ORDER;
        let (made, _) = during(at, session.acme.new_order(&request)).await;
        let order = made.map_err(|error| told(at, error))?;
        let url = order.url().to_owned();
        session.transport.check_url(at, &url)?;
        session.orders.keep(order);
        Ok(NewOrder { url })
    }

    /// How an order stands, by asking the CA.
    ///
    /// # Errors
    /// When the CA fails or refuses, or does not know the order.
    pub async fn order(&self, order_url: &str) -> Result<OrderStatus, Error> {
        self.ask(|session| async move {
            let (mut order, retry_after) = session.read_order(order_url).await?;
            let status = session.status(&mut order, retry_after).await?;
            session.orders.keep(order);
            Ok(status)
        })
        .await
    }

    /// Finalizes an order that is ready; any other is left as it is. The order is read first, unless it was just now.
    ///
    /// # Errors
    /// When the CA fails or refuses. After an error that leaves open what happened, read the order: it tells.
    pub async fn finalize(&self, order_url: &str, csr_der: &[u8]) -> Result<OrderStatus, Error> {
        self.ask(|session| finalize(session, order_url, csr_der)).await
    }

    /// Downloads the chain of an order that is valid, as clean PEM, leaf first.
    ///
    /// # Errors
    /// When there is none, the CA fails or refuses, or what it sends is no chain.
    pub async fn certificate(&self, order_url: &str) -> Result<String, Error> {
        Ok(self.download(order_url).await?.chain_pem)
    }

    pub(crate) async fn download(&self, order_url: &str) -> Result<Downloaded, Error> {
        self.ask(|session| download(session, order_url)).await
    }

    /// Downloads another chain of a certificate.
    pub(crate) async fn alternate(&self, url: &str) -> Result<String, Error> {
        self.ask(|session| async move { Ok(fetch(&session, url).await?.chain_pem) }).await
    }

    /// A profile that the CA does not list would be refused with every order: better said once.
    pub(crate) fn check_profile(&self, directory: &Directory) -> Result<(), Error> {
        let Some(profile) = &self.0.config.profile else { return Ok(()) };
        let offered = &directory.meta.profiles;
        if offered.contains_key(profile) {
            return Ok(());
        }
        let offered = match offered.is_empty() {
            true => "none, so leave it out".to_owned(),
            false => offered.keys().cloned().collect::<Vec<_>>().join(", "),
        };
        Err(Error::UnknownProfile { profile: profile.clone(), offered })
    }
}

/// A chain, and where the CA has others for the same certificate.
pub(crate) struct Downloaded {
    pub(crate) chain_pem: String,
    pub(crate) alternates: Vec<String>,
}

async fn finalize(
    session: Arc<Session>,
    order_url: &str,
    csr_der: &[u8],
) -> Result<OrderStatus, Error> {
    let (mut order, retry_after) = match session.orders.take_if(order_url, is_ready) {
        Some(order) => (order, None),
        None => session.read_order(order_url).await?,
    };
    let read = session.status(&mut order, retry_after).await?;
    if read != OrderStatus::Ready {
        session.orders.keep(order);
        return Ok(read);
    }
    let at = Point::ACME_FINALIZE;
    session.transport.check_url(at, &order.state().finalize)?;
    let (finalized, retry_after) = during(at, order.finalize_csr(csr_der)).await;
    match finalized.map_err(|error| told(at, error)) {
        Ok(()) => {
            let status = session.status(&mut order, retry_after).await?;
            session.orders.keep(order);
            Ok(status)
        }
        // It moved on since it was read, by an earlier request whose answer was lost: how far, it tells itself.
        Err(error) if error.is("orderNotReady") => {
            let (mut order, retry_after) = session.read_order(order_url).await?;
            match session.status(&mut order, retry_after).await? {
                OrderStatus::Ready => Err(error),
                status => Ok(status),
            }
        }
        Err(error) => Err(error),
    }
}

async fn download(session: Arc<Session>, order_url: &str) -> Result<Downloaded, Error> {
    let (mut order, retry_after) = match session.orders.take_if(order_url, is_valid) {
        Some(order) => (order, None),
        None => session.read_order(order_url).await?,
    };
    let status = session.status(&mut order, retry_after).await?;
    if status != OrderStatus::Valid {
        return Err(Error::NotIssued(status));
    }
    match &order.state().certificate {
        Some(url) => fetch(&session, url).await,
        None => {
            Err(malformed(Point::ACME_CERTIFICATE, "the order is valid and names no certificate"))
        }
    }
}

/// Not through instant-acme, which drops the links to other chains.
async fn fetch(session: &Session, url: &str) -> Result<Downloaded, Error> {
    let at = Point::ACME_CERTIFICATE;
    session.transport.check_url(at, url)?;
    let answer = session.post(at, url, None).await?;
    let pem =
        std::str::from_utf8(&answer.body).map_err(|error| not_acme(at, &error.to_string()))?;
    let chain = Chain::parse(pem).map_err(|error| not_acme(at, &error.to_string()))?;
    Ok(Downloaded { chain_pem: chain.to_pem(), alternates: answer.links("alternate") })
}

fn is_ready(state: &OrderState) -> bool {
    state.status == instant_acme::OrderStatus::Ready
}

fn is_valid(state: &OrderState) -> bool {
    state.status == instant_acme::OrderStatus::Valid
}

impl Session {
    /// Asks the CA, whatever is remembered.
    pub(crate) async fn read_order(
        &self,
        url: &str,
    ) -> Result<(instant_acme::Order, Option<Duration>), Error> {
        let at = Point::ACME_ORDER;
        self.orders.forget(url);
        self.transport.check_url(at, url)?;
        let (read, retry_after) = during(at, self.acme.order(url.to_owned())).await;
        Ok((read.map_err(|error| told(at, error))?, retry_after))
    }

    pub(crate) async fn status(
        &self,
        order: &mut instant_acme::Order,
        retry_after: Option<Duration>,
    ) -> Result<OrderStatus, Error> {
        use instant_acme::OrderStatus as Told;
        Ok(match order.state().status {
            Told::Pending => OrderStatus::Pending,
            Told::Ready => OrderStatus::Ready,
            Told::Processing => OrderStatus::Processing { retry_after },
            Told::Valid => OrderStatus::Valid,
            Told::Invalid => OrderStatus::Invalid(self.why_invalid(order).await?),
        })
    }

    /// An order's own words; where it has none, those of the authorization that failed it.
    async fn why_invalid(&self, order: &mut instant_acme::Order) -> Result<Note, Error> {
        if let Some(problem) = &order.state().error {
            return Ok(Problem::from(problem).note());
        }
        let urls: Vec<String> =
            order.state().authorizations.iter().map(|one| one.url.clone()).collect();
        for url in urls {
            let (state, _) = self.read_authorization(&url).await?;
            if let Some(note) = authorization::failure(&state) {
                return Ok(note);
            }
        }
        Ok(Note::new("acme-order-gone", "the CA calls the order invalid and does not say why"))
    }
}
