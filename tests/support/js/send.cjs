// Sends tasks with the OpenTelemetry JavaScript SDK and prints their trace ids as JSON, one task a trace.
//
//   NODE_PATH=.../node_modules node send.cjs PROTOCOL URL COMPRESSION TASKS
//
// PROTOCOL is http/json, http/protobuf or grpc; COMPRESSION is gzip or none. A task has two calls. Answers 1 if an
// exporter gave up on any span.

const { trace, context, diag, DiagLogLevel, SpanKind } = require('@opentelemetry/api');
const { BasicTracerProvider, BatchSpanProcessor } = require('@opentelemetry/sdk-trace-base');
const { resourceFromAttributes } = require('@opentelemetry/resources');

const PACKAGES = {
  'http/json': '@opentelemetry/exporter-trace-otlp-http',
  'http/protobuf': '@opentelemetry/exporter-trace-otlp-proto',
  grpc: '@opentelemetry/exporter-trace-otlp-grpc',
};

async function main(protocol, url, compression, tasks) {
  let failed = false;
  diag.setLogger(
    { error: (...said) => { failed = true; console.error(...said); }, warn() {}, info() {}, debug() {}, verbose() {} },
    { logLevel: DiagLogLevel.ERROR },
  );
  const { OTLPTraceExporter } = require(PACKAGES[protocol]);
  const exporter = new OTLPTraceExporter({ url, compression });
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({ 'service.name': `js ${protocol}` }),
    spanProcessors: [new BatchSpanProcessor(exporter, { maxQueueSize: 100000, maxExportBatchSize: 200 })],
  });
  const tracer = provider.getTracer('js');
  const ids = [];
  for (let i = 0; i < Number(tasks); i++) {
    const root = tracer.startSpan('invoke_agent', { attributes: { 'gen_ai.operation.name': 'invoke_agent' } });
    ids.push(root.spanContext().traceId);
    for (let j = 0; j < 2; j++) {
      const call = tracer.startSpan('chat m', { kind: SpanKind.CLIENT, attributes: {
        'gen_ai.operation.name': 'chat',
        'gen_ai.request.model': 'm',
        'gen_ai.usage.input_tokens': 10,
        'gen_ai.usage.output_tokens': 3,
      } }, trace.setSpan(context.active(), root));
      call.end();
    }
    root.end();
    if (i % 20 === 19) await new Promise((go) => setTimeout(go, 10));
  }
  await provider.forceFlush();
  await provider.shutdown();
  console.log(JSON.stringify(ids));
  process.exit(failed ? 1 : 0);
}

main(...process.argv.slice(2));
