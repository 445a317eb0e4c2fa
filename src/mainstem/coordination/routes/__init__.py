"""Routes: where a published message goes. Exchanges of several kinds, and the bindings between them and to queues."""
