struct request;
typedef void stage(struct request *);
extern int served;
void queue(struct request *r, stage *to);
void loop(void);
int has_request(void);
void add(void);
