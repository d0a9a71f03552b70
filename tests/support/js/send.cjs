// Sends tasks with the OpenTelemetry SDK of JavaScript, one a trace, and prints the ids of the traces as JSON:
// {"sent": [...], "acknowledged": [...]}, the latter those of which every span was taken.
//
//   NODE_PATH=.../node_modules node send.cjs PROTOCOL URL COMPRESSION TASKS
//
// PROTOCOL is http/json, http/protobuf or grpc; COMPRESSION is gzip or none. Sends at least so many tasks, and goes
// on until its standard input ends. A task has two calls.

const { trace, context, SpanKind } = require('@opentelemetry/api');
const { BasicTracerProvider, BatchSpanProcessor } = require('@opentelemetry/sdk-trace-base');
const { resourceFromAttributes } = require('@opentelemetry/resources');

const PAUSE_MS = 50;
const TASKS_A_PAUSE = 10;
// That of gRPC tries nothing again: it need not wait long.
const TIMEOUT_MS = { 'http/json': 60000, 'http/protobuf': 60000, grpc: 10000 };
const PACKAGES = {
  'http/json': '@opentelemetry/exporter-trace-otlp-http',
  'http/protobuf': '@opentelemetry/exporter-trace-otlp-proto',
  grpc: '@opentelemetry/exporter-trace-otlp-grpc',
};

async function main(protocol, url, compression, tasks) {
  let ended = false;
  process.stdin.on('end', () => { ended = true; }).resume();
  const { OTLPTraceExporter } = require(PACKAGES[protocol]);
  const exporter = new OTLPTraceExporter({ url, compression, timeoutMillis: TIMEOUT_MS[protocol] });
  const taken = new Map();
  const batches = {
    maxQueueSize: 100000, maxExportBatchSize: 200, scheduledDelayMillis: 100, exportTimeoutMillis: 60000,
  };
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({ 'service.name': `js ${protocol}` }),
    spanProcessors: [new BatchSpanProcessor(noting(exporter, taken), batches)],
  });
  const tracer = provider.getTracer('js');
  const ids = [];
  while (ids.length < Number(tasks) || !ended) {
    for (let i = 0; i < TASKS_A_PAUSE; i++) ids.push(task(tracer));
    await new Promise((goOn) => setTimeout(goOn, PAUSE_MS));
  }
  await provider.forceFlush();
  await provider.shutdown();
  console.log(JSON.stringify({ sent: ids, acknowledged: ids.filter((id) => taken.get(id) === 3) }));
}

// The exporter, which counts in `taken` how many spans of each trace were taken.
function noting(exporter, taken) {
  return {
    export: (spans, done) => exporter.export(spans, (result) => {
      if (result.code === 0) {
        for (const { traceId } of spans.map((span) => span.spanContext())) {
          taken.set(traceId, (taken.get(traceId) || 0) + 1);
        }
      }
      done(result);
    }),
    forceFlush: () => exporter.forceFlush(),
    shutdown: () => exporter.shutdown(),
  };
}

function task(tracer) {
  const root = tracer.startSpan('invoke_agent', { attributes: { 'gen_ai.operation.name': 'invoke_agent' } });
  const attributes = {
    'gen_ai.operation.name': 'chat',
    'gen_ai.request.model': 'm',
    'gen_ai.usage.input_tokens': 10,
    'gen_ai.usage.output_tokens': 3,
  };
  for (let i = 0; i < 2; i++) {
    tracer.startSpan('chat m', { kind: SpanKind.CLIENT, attributes }, trace.setSpan(context.active(), root)).end();
  }
  root.end();
  return root.spanContext().traceId;
}

main(...process.argv.slice(2));
